"""Rules by which a server chooses devices from what it knows of them; scenarios name them under `selection`."""
