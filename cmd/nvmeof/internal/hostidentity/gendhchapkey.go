package hostidentity

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// genKeyFlags holds the flags of nvme gen-dhchap-key.
type genKeyFlags struct {
	hmac   uint8
	secret string
	length int
	nqn    string
}

// GenDHCHAPKey returns the command nvmeof gen-dhchap-key.
func GenDHCHAPKey() *cobra.Command {
	var f genKeyFlags
	cmd := &cobra.Command{
		Use:   "gen-dhchap-key [--hmac N] [--secret HEX] [--key-length BYTES] [--nqn NQN]",
		Short: "Generate a key for in-band authentication, as nvme gen-dhchap-key",
		Long:  `Print a new DH-HMAC-CHAP key in the format of nvme-cli and the Linux target.`,
		Example: `  nvmeof gen-dhchap-key --hmac 1 >host.key; chmod 600 host.key  # or: nvmeof key generate
  nvmeof target ... --allow-host HOSTNQN,dhchap-key-file=host.key
  nvme connect ... --dhchap-secret "$(cat host.key)"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := f.key()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), key.Text())
			return err
		},
	}
	flags := cmd.Flags()
	flags.Uint8VarP(&f.hmac, "hmac", "m", 0, "HMAC function that transforms the key: 0 none, 1 SHA-256, 2 SHA-384, 3 SHA-512")
	flags.StringVarP(&f.secret, "secret", "s", "", "secret of the key, in hexadecimal (default: random)")
	flags.IntVarP(&f.length, "key-length", "l", 0, "length of the key in bytes: 32, 48 or 64 (default: that of the hash, or 32)")
	flags.StringVarP(&f.nqn, "nqn", "n", "", "NQN for which the key is transformed: of the host or, for a controller's key, of the subsystem (default: /etc/nvme/hostnqn, or one kept for this user)")
	return cmd
}

// key makes the key. As in nvme-cli, a key with a hash contains the secret transformed by that hash for the host.
func (f *genKeyFlags) key() (auth.Key, error) {
	h := auth.Hash(f.hmac)
	if h != auth.HashNone && !h.Usable() {
		return auth.Key{}, failure.Usagef("--hmac %d: want 0 (none), 1 (SHA-256), 2 (SHA-384) or 3 (SHA-512)", f.hmac)
	}
	length := f.length
	if length == 0 {
		length = max(h.Size(), 32)
	}
	switch {
	case length != 32 && length != 48 && length != 64:
		return auth.Key{}, failure.Usagef("--key-length %d: want 32, 48 or 64", length)
	case h != auth.HashNone && length != h.Size():
		return auth.Key{}, failure.Usagef("--key-length %d: --hmac %d needs %d", length, f.hmac, h.Size())
	}
	secret := make([]byte, length)
	if f.secret == "" {
		rand.Read(secret) // never fails
	} else {
		b, err := hex.DecodeString(f.secret)
		if err != nil || len(b) != length {
			return auth.Key{}, failure.Usagef("--secret: want %d hexadecimal digits, got %d characters", 2*length, len(f.secret))
		}
		secret = b
	}
	name, err := f.owner()
	if err != nil {
		return auth.Key{}, err
	}
	return auth.DeriveKey(h, secret, name)
}

// owner returns the owner of the key: a host, or a subsystem whose controllers authenticate with it.
func (f *genKeyFlags) owner() (nvmeof.NQN, error) {
	if f.nqn == "" {
		identity, err := Of("", "")
		return identity.NQN, err
	}
	name, err := nvmeof.AnyNQN(f.nqn)
	if err != nil {
		return "", failure.Usagef("--nqn: %v", err)
	}
	return name, nil
}
