# Changes a second port of the kernel's own target. Parameters: action (add; remove; state: sets an ANA state; unlink,
# link: the subsystem), nqn, addr, family, id (of the port; it listens on port number 4419 + id), state.
cfs=/sys/kernel/config/nvmet
port=$cfs/ports/$id
subsystem=$cfs/subsystems/$nqn
case $action in
add)
  mkdir "$port"
  echo rdma >"$port/addr_trtype"
  echo "$family" >"$port/addr_adrfam"
  echo "$addr" >"$port/addr_traddr"
  echo $((4419 + id)) >"$port/addr_trsvcid"
  ln -s "$subsystem" "$port/subsystems/"
  ;;
remove)
  rm -f "$port"/subsystems/*
  rmdir "$port"
  ;;
state) echo "$state" >"$port/ana_groups/1/ana_state" ;;
unlink) rm "$port/subsystems/$nqn" ;;
link) ln -s "$subsystem" "$port/subsystems/" ;;
esac
