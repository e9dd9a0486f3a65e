"""Does no training at all."""

print("hello")
