# Waits until the last state that the program paths has printed of a path is the given one. Parameters: addr, state,
# seconds.
told() { [[ $(grep -F " $addr is " /tmp/paths.out | tail -1) == *" $addr is $state"* ]]; }
within "$seconds" told
