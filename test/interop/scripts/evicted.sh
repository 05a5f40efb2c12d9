# Waits until the kernel has removed the host's controllers because their reconnect was refused for good. Parameters:
# nqn.
gone() { ! controller "$nqn"; }
within 60 gone
! block_device "$nqn" 1 || die "the block device is still there"
