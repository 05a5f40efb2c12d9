# Removes what authnvmet has set up. Parameters: nqn.
cfs=/sys/kernel/config/nvmet
rm -f "$cfs/subsystems/$nqn/allowed_hosts/"*
for entry in "$cfs"/hosts/*; do rmdir "$entry"; done
