"""C++ and CUDA files: what they register, and what their functions do on a target."""
