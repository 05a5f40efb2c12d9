package hostidentity

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// GenHostNQN returns the command nvmeof gen-hostnqn.
func GenHostNQN() *cobra.Command {
	return &cobra.Command{
		Use:   "gen-hostnqn",
		Short: "Generate a host NQN, as nvme gen-hostnqn",
		Long:  "Print a host NQN: this machine's, if its firmware has a UUID\nthat this user may read, or a new one.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nqn, err := machineNQN(productUUID)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), nqn)
			return err
		},
	}
}

// productUUID is the file with the machine's UUID, which only root can read.
const productUUID = "/sys/class/dmi/id/product_uuid"

// machineNQN returns the NQN derived from the UUID in a file, or a new one.
func machineNQN(file string) (nvmeof.NQN, error) {
	if b, err := os.ReadFile(file); err == nil {
		id, err := uuid.Parse(strings.TrimSpace(string(b)))
		if err == nil && id != uuid.Nil && id != uuid.Max {
			return nvmeof.UUIDNQN(id), nil
		}
	}
	h, err := nvmeof.NewHostIdentity()
	return h.NQN, err
}

// ShowHostNQN returns the command nvmeof show-hostnqn.
func ShowHostNQN() *cobra.Command {
	return &cobra.Command{
		Use:   "show-hostnqn",
		Short: "Show this host's NQN, as nvme show-hostnqn",
		Long:  "Print the NQN by which targets know this host: that in /etc/nvme/hostnqn, or\nthe one kept for this user.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			identity, err := Of("", "")
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), identity.NQN)
			return err
		},
	}
}

// CheckDHCHAPKey returns the command nvmeof check-dhchap-key.
func CheckDHCHAPKey() *cobra.Command {
	var text string
	cmd := &cobra.Command{
		Use:   "check-dhchap-key --key DHHC-1:...",
		Short: "Check a key for in-band authentication, as nvme check-dhchap-key",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if text == "" {
				return failure.Usagef("Key not specified: give --key, as printed by nvmeof gen-dhchap-key")
			}
			s, err := checkKey(text)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), s)
			return err
		},
	}
	cmd.Flags().StringVarP(&text, "key", "k", "", "DH-HMAC-CHAP key to be validated, or file:PATH")
	return cmd
}

// checkKey describes a valid key.
func checkKey(text string) (string, error) {
	key, err := ParseSecret(text)
	if err != nil {
		return "", err
	}
	// The canonical text is "DHHC-1:", the hash, and the secret with its CRC-32.
	parts := strings.Split(key.Text(), ":")
	hash, err := strconv.ParseUint(parts[1], 16, 8)
	if err != nil {
		return "", err
	}
	data, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return "", err
	}
	length := len(data) - crc32.Size
	if want := auth.Hash(hash).Size(); auth.Hash(hash) != auth.HashNone && length != want {
		return "", fmt.Errorf("key of %d bytes, but SHA-%d has %d: nvme-cli refuses it", length, want*8, want)
	}
	return fmt.Sprintf("Key is valid (HMAC %d, length %d, CRC %08x)", hash, length, binary.LittleEndian.Uint32(data[length:])), nil
}
