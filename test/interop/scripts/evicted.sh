# Waits until the kernel has given the host's controllers up: their reconnect is
# refused for good. Parameters: nqn.
gone() { ! controller "$nqn"; }
within 60 gone
! block_device "$nqn" 1 || die "the block device is still there"
