"""Lower bounds that scale: each way proposes the numbers of a proof, and `kvcore.certificates` checks them."""
