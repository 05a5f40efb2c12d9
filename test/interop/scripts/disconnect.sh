# Disconnects, which must end in time. Parameters: nqn, limit_ms.
began=$(now_ms)
nvme disconnect -n "$nqn"
took=$(($(now_ms) - began))
note "disconnected in $took ms"
((took <= limit_ms)) || die "disconnect took $took ms, at most $limit_ms are allowed"
! controller "$nqn" || die "the controller is still there"
