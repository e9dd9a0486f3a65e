"""Says what is wrong with a script: from what an examined run noted; values in, findings out."""
