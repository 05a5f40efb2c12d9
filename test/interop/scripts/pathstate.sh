# Waits until the program paths has told this of a path last. Parameters: addr, state,
# seconds.
told() { [[ $(grep -F " $addr is " /tmp/paths.out | tail -1) == *" $addr is $state"* ]]; }
within "$seconds" told
