// Package hostidentity provides the names and keys of this host: its NQN and host identifier, from the command line,
// from /etc/nvme or generated and kept for this user ([Of]), its secrets for DH-HMAC-CHAP ([ParseSecret]), and
// nvme-cli's commands that generate, show and check these.
package hostidentity
