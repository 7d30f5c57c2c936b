"""What `benchmarks/compare` is made of. PyTorch and CTranslate2 are imported in processes of their own alone, `*_worker`."""
