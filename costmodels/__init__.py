"""How long a batch takes: named cost models, each as the exact integer coefficients that an instance holds."""

from costmodels.infermax import infermax_7b

__all__ = ["infermax_7b"]
