"""The operations of a decoder as Triton kernels, for a GPU or, with TRITON_INTERPRET=1, a CPU.

A file holds one kernel and its launch; `variants` has attention's tile sizes, `backend` the engine's class.
"""
