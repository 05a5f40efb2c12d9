package nvmeverb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// featureLengths holds the data lengths of features, in bytes.
var featureLengths = map[capsule.FID]uint32{
	capsule.FeatureLBARange: capsule.LBARangeTypeSize, 0x0c: 256, capsule.FeatureHostMemoryBuffer: 4096,
	capsule.FeatureTimestamp: capsule.TimestampSize, 0x13: 512, capsule.FeatureHostBehavior: capsule.HostBehaviorSize, 0x1e: 510,
	0x7d: 4096, 0x7e: 4096, 0x7f: 4096, capsule.FeatureHostID: capsule.HostIDShortSize,
}

// featureLength returns the length of a feature's data in bytes. The host identifier has its full length if bit 0 of
// CDW11 is set.
func featureLength(id capsule.FID, cdw11 uint32) uint32 {
	if id == capsule.FeatureHostID && cdw11&1 != 0 {
		return capsule.HostIDSize
	}
	return featureLengths[id]
}

// getFeatureFlags holds the flags of nvme get-feature.
type getFeatureFlags struct {
	id, sel, uuid uint8
	length, cdw11 uint32
	changed       bool
}

func newGetFeature(to Connection) *cobra.Command {
	v := verb{Connection: to}
	var f getFeatureFlags
	cmd := newVerb("get-feature", "Show a controller's features", canRaw|canHuman, &v, func(flags *pflag.FlagSet) {
		v.namespaceFlag(flags, capsule.NSIDBroadcast, "identifier of desired namespace")
		flags.Uint8VarP(&f.id, "feature-id", "f", 0, "feature identifier (default: all)")
		flags.Uint8Var(&f.sel, "sel", 0, "[0-3]: current/default/saved/supported")
		flags.Uint32VarP(&f.length, "data-len", "l", 0, "buffer len (if) data is received")
		flags.Uint32VarP(&f.cdw11, "cdw11", "c", 0, "feature specific dword 11")
		flags.Uint8VarP(&f.uuid, "uuid-index", "U", 0, "specify uuid index")
		flags.BoolVarP(&f.changed, "changed", "C", false, "show only features whose value is not the default, or that have data")
	}, func(ctx context.Context, c *call) error {
		if f.changed {
			f.sel = uint8(capsule.SelectCurrent)
		}
		switch {
		case f.sel > uint8(capsule.SelectSupported):
			return failure.Usagef("invalid 'select' param:%d; it is 0 to 3", f.sel)
		case f.length > maxFeatureLength:
			return failure.Usagef("--data-len %d: %d bytes at most", f.length, maxFeatureLength)
		case f.id != 0:
			return f.one(ctx, c)
		}
		return f.all(ctx, c)
	})
	cmd.Example = "  nvmeof get-feature -t rdma -a 192.0.2.1 -n NQN -f 0x0b -H"
	return cmd
}

// maxFeatureLength is the maximum length of a feature's data in bytes.
const maxFeatureLength = 4096

func (f *getFeatureFlags) one(ctx context.Context, c *call) error {
	answer, err := f.read(ctx, c, capsule.FID(f.id))
	if err != nil {
		return err
	}
	if f.changed && !f.differs(ctx, c, &answer) {
		return c.Output.Features(nil, capsule.StatusSuccess)
	}
	if c.raw && len(answer.Data) > 0 {
		return c.write(answer.Data)
	}
	return c.Output.Feature(answer)
}

func (f *getFeatureFlags) read(ctx context.Context, c *call, id capsule.FID) (nvmecli.Feature, error) {
	answer := nvmecli.Feature{ID: id, Select: capsule.FeatureSelect(f.sel)}
	length := f.length
	if length == 0 && answer.Select != capsule.SelectSupported {
		length = featureLength(id, f.cdw11)
	}
	answer.Data = make([]byte, length)
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminGetFeatures), NSID: c.id()}
	capsule.GetFeatures{FID: id, Select: answer.Select, Value: f.cdw11}.Put(&cmd)
	cmd.CDW14 = uint32(f.uuid & 0x7f)
	done, err := c.Admin(ctx, cmd, answer.Data)
	answer.Value = done.DW0()
	return answer, err
}

// differs reports whether --changed shows a feature. Like nvme-cli, it labels the value as the default one, and always
// shows a feature with data.
func (f *getFeatureFlags) differs(ctx context.Context, c *call, now *nvmecli.Feature) bool {
	standard := *f
	standard.sel = uint8(capsule.SelectDefault)
	otherwise, err := standard.read(ctx, c, now.ID)
	now.Select = capsule.SelectDefault
	return err != nil || otherwise.Value != now.Value || len(now.Data) > 0
}

// all shows all features. Like nvme-cli, it skips those that are not supported and stops at the first that fails for
// another reason. Controllers over fabrics require the extended host identifier: it is requested in a second attempt.
func (f *getFeatureFlags) all(ctx context.Context, c *call) error {
	var list []nvmecli.Feature
	for id := range 256 {
		answer, err := f.read(ctx, c, capsule.FID(id))
		var refused *host.StatusError
		if errors.As(err, &refused) && refused.Status.Code() == capsule.StatusHostIDInconsistent {
			whole := *f
			whole.cdw11 ^= 1
			answer, err = whole.read(ctx, c, capsule.FID(id))
		}
		switch {
		case err == nil && f.changed && !f.differs(ctx, c, &answer):
		case err == nil:
			list = append(list, answer)
		case !errors.As(err, &refused):
			return err
		case refused.Status.Code() == capsule.StatusInvalidNamespace && !c.JSON:
			fmt.Fprintf(c.warn, "get-feature:%s: %s\n", nvmecli.FeatureTitle(answer.ID), nvmecli.Status(refused.Status))
		case refused.Status.Code() != capsule.StatusInvalidField && refused.Status.Code() != capsule.StatusInvalidNamespace:
			if c.JSON {
				err = &failure.Reported{Err: err}
			}
			return errors.Join(c.Output.Features(list, refused.Status), err)
		}
	}
	return c.Output.Features(list, capsule.StatusSuccess)
}

// setFeatureFlags holds the flags of nvme set-feature.
type setFeatureFlags struct {
	id, uuid      uint8
	value         uint64
	cdw12, length uint32
	data          string
	save          bool
}

func newSetFeature(to Connection) *cobra.Command {
	v := verb{Connection: to}
	var f setFeatureFlags
	return newVerb("set-feature", "Set a feature of a controller", 0, &v, func(flags *pflag.FlagSet) {
		v.namespaceFlag(flags, capsule.NSIDBroadcast, "desired namespace")
		flags.Uint8VarP(&f.id, "feature-id", "f", 0, "feature identifier (required)")
		flags.Uint64VarP(&f.value, "value", "V", 0, "new value of feature (required)")
		flags.Uint32VarP(&f.cdw12, "cdw12", "c", 0, "feature cdw12, if used")
		flags.Uint8VarP(&f.uuid, "uuid-index", "U", 0, "specify uuid index")
		flags.Uint32VarP(&f.length, "data-len", "l", 0, "buffer len (if) data is sent")
		flags.StringVarP(&f.data, "data", "d", "", "optional file for feature data (default stdin)")
		flags.BoolVar(&f.save, "save", false, "specifies that the controller shall save the attribute")
	}, func(ctx context.Context, c *call) error { return f.run(ctx, c) })
}

func (f *setFeatureFlags) run(ctx context.Context, c *call) error {
	id := capsule.FID(f.id)
	switch {
	case id == 0:
		return failure.Usagef("feature-id required param: --feature-id, as in -f 0x04")
	case f.length > maxFeatureLength:
		return failure.Usagef("--data-len %d: %d bytes at most", f.length, maxFeatureLength)
	}
	data, err := f.load(ctx, c.in, id)
	if err != nil {
		return err
	}
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminSetFeatures), NSID: c.id(), CDW12: f.cdw12}
	capsule.SetFeatures{FID: id, Save: f.save, Value: uint32(f.value)}.Put(&cmd)
	cmd.CDW14 = uint32(f.uuid & 0x7f)
	if _, err := c.Admin(ctx, cmd, data); err != nil {
		return err
	}
	if err := c.FeatureSet(id, f.value, f.cdw12, f.save); err != nil || len(data) == 0 {
		return err
	}
	return c.Dump(data)
}

// load returns the feature's data. That of a timestamp is the value.
func (f *setFeatureFlags) load(ctx context.Context, in io.Reader, id capsule.FID) ([]byte, error) {
	length := f.length
	if length == 0 {
		length = featureLength(id, uint32(f.value))
	}
	data := make([]byte, length)
	switch {
	case length == 0:
		return nil, nil
	case id == capsule.FeatureTimestamp && length >= capsule.TimestampSize:
		binary.LittleEndian.PutUint64(data, f.value)
		return data, nil
	}
	if _, err := namedfile.Fill(ctx, f.data, in, data); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("no data for feature %#02x, which has %d bytes: %w; give a file with --data", f.id, length, err)
	}
	return data, nil
}
