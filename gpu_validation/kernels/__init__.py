"""The operations of a decoder as Triton kernels, for a GPU or, with TRITON_INTERPRET=1, for the interpreter on a CPU.

One file holds one kernel and the function that launches it; `variants` is the table of attention's tile sizes, and
`backend` the class that the engine uses.
"""
