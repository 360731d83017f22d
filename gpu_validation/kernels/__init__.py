"""The operations of a decoder as Triton kernels, for a GPU or, with TRITON_INTERPRET=1, the interpreter on a CPU.

A file holds one kernel and its launch; `variants` is the table of attention's tile sizes, `backend` the engine's class.
"""
