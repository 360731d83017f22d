"""Lower bounds that scale: each way proposes the numbers of a proof, which `kvcore.certificates` checks."""
