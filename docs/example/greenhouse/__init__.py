"""An algorithm, a network and a data set of one's own."""
