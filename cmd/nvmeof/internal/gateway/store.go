package gateway

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/etcd"
	"github.com/nvmeof-go/nvmeof/internal/group/state/rados"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// maxPassword is the greatest size of a password file, in bytes.
const maxPassword = 4 << 10

// openStore opens the store of a group.
func openStore(ctx context.Context, g *config.Gateways, log *zap.Logger) (state.Store, error) {
	at, err := config.ParseGroupStore(g.Store)
	if err != nil {
		return nil, err
	}
	if at.Kind == "rados" {
		return rados.Open(ctx, rados.Config{Conf: string(g.Conf), ID: g.ID, Pool: at.Pool, Group: at.Name, Timeout: radosTime})
	}
	cfg := etcd.Config{Endpoints: at.Addresses, Group: at.Name, User: g.User, Log: log,
		TLS: etcd.TLS{CA: string(g.TLS.Authority), Cert: string(g.TLS.Certificate), Key: string(g.TLS.Key)}}
	if g.TLS != (config.GroupTLS{}) {
		for i, a := range cfg.Endpoints {
			cfg.Endpoints[i] = "https://" + a
		}
	}
	if g.PasswordFile != "" {
		cfg.Reread = func(ctx context.Context) (string, error) { return passwordIn(ctx, g.PasswordFile) }
		if cfg.Password, err = cfg.Reread(ctx); err != nil {
			return nil, err
		}
	}
	return etcd.Open(cfg)
}

func passwordIn(ctx context.Context, file config.Path) (string, error) {
	text, err := namedfile.Read(ctx, string(file), maxPassword)
	if err != nil {
		return "", fmt.Errorf("password of the group's store: %w", err)
	}
	return string(bytes.TrimRight(text, "\r\n")), nil
}

// radosTime is the time limit of a call to Ceph.
const radosTime = 5 * time.Second
