"""Says what is wrong with a script: reads what an examined run noted, and judges; values in, findings out."""
