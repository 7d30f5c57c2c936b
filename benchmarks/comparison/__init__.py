"""What `benchmarks/compare` is made of. Only the modules named `*_worker` import PyTorch or CTranslate2, in processes of their own."""
