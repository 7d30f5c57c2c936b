"""What `compare_gpu.py` is made of, and attend's program for it. PyTorch is imported in processes of their own alone."""
