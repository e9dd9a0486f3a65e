"""From runs to numbers with intervals, laws and caveats: values only, no printing, no plots, no torch."""
