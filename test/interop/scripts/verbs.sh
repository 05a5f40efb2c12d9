# Runs the tests of package verbs on rxe0. Parameters: addr, nowhere, tests (a pattern), flags (further ones), limit (of
# the time, in seconds).
resources() { rdma resource show | sed 's/^[0-9]*: //'; }
before=$(resources)
status=0
GOTRACEBACK=all timeout $((${limit:-200} + 20)) verbs.test -test.v -test.timeout "${limit:-200}s" -test.run "$tests" -addr "$addr" -nowhere "$nowhere" $flags >/tmp/verbs.log 2>&1 || status=$?
grep -E '^ *(---|===) .*|_test.go:|^(ok|FAIL|PASS|panic|fatal)' /tmp/verbs.log | grep -vE '=== (RUN|CONT|NAME)' || :
if ((status)); then
  cp /tmp/verbs.log /mnt/host/verbs.log
  tail -40 /tmp/verbs.log
  die "verbs.test ended with status $status"
fi
if [[ $flags == *-remove* ]]; then # the device is removed when its last user has ended
  gone() { [[ ! -e /sys/class/infiniband/rxe0 ]]; }
  within 20 gone
  exit
fi
same() { [[ $(resources) == "$before" ]]; }
within 20 same
