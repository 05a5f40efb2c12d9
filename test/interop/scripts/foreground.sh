# Parameters: command.
eval "$command"
