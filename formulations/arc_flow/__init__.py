"""The arc-flow formulation: requests as flows through layered graphs of states, coupled by what they share."""
