"""What `datasets`, `methods` and `bench` share and none of them owns."""
