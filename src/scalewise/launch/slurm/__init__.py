"""Runs under Slurm: a job is submitted and followed from outside; inside it, each run is one `srun` step."""
