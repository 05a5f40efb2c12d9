package nvmeverb

import (
	"context"
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
)

// A NamespaceLister lists the existing namespaces: a controller, or several paths.
type NamespaceLister interface {
	Namespaces(context.Context) ([]capsule.NSID, error)
}

// ChooseNamespace returns the wanted namespace, or the lowest if wanted is 0.
func ChooseNamespace(ctx context.Context, h NamespaceLister, wanted uint32) (capsule.NSID, error) {
	ids, err := h.Namespaces(ctx)
	if err != nil {
		return 0, err
	}
	if wanted == 0 && len(ids) > 0 {
		return ids[0], nil
	}
	for _, id := range ids {
		if uint32(id) == wanted {
			return id, nil
		}
	}
	if len(ids) == 0 {
		return 0, errors.New("the subsystem has no namespace")
	}
	return 0, failure.Usagef("--namespace-id %d: no such namespace; the subsystem has: %s", wanted, failure.List(Texts(ids)))
}

// Texts formats identifiers.
func Texts(ids []capsule.NSID) (s []string) {
	for _, id := range ids {
		s = append(s, fmt.Sprint(uint32(id)))
	}
	return s
}
