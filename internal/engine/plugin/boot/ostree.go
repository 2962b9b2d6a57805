package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// rpmOSTree keeps the arguments in the deployment. It reads and writes all of them, so undo
// restores the same list.
type rpmOSTree struct{ host *host.Host }

func (rpmOSTree) setting() setting.Setting {
	return setting.Setting{Kind: "bootloader", Name: "rpm-ostree"}
}

func (k rpmOSTree) plan(_ context.Context, r *plugin.Request, o profile.Option, want boot) ([]plugin.Item, error) {
	under, err := r.Original(k.setting())
	if err != nil {
		return []plugin.Item{plugin.Refuse(k.setting(), o, plugin.Unknown, "%v", err)}, nil
	}
	args := words(under.Text)
	for _, a := range words(want.args) {
		if !slices.Contains(args, a) {
			args = append(args, a)
		}
	}
	it := plugin.Want(k.setting(), strings.Join(args, " "), o)
	it.Why = "makes a new deployment, which takes effect at the next boot"
	return []plugin.Item{it}, nil
}

func (k rpmOSTree) read(ctx context.Context) (setting.Value, error) {
	out, err := host.Run(ctx, k.host, "rpm-ostree", "kargs")
	if errors.Is(err, fs.ErrNotExist) {
		return setting.Value{}, errors.New("rpm-ostree is not installed")
	}
	return setting.Text(strings.Join(strings.Fields(out), " ")), err
}

func (k rpmOSTree) write(ctx context.Context, v setting.Value) error {
	now, err := k.read(ctx)
	if err != nil {
		return err
	}
	argv := []string{"rpm-ostree", "kargs"}
	for _, a := range without(words(now.Text), words(v.Text)) {
		argv = append(argv, "--delete="+a)
	}
	for _, a := range without(words(v.Text), words(now.Text)) {
		argv = append(argv, "--append="+a)
	}
	if len(argv) == 2 {
		return nil
	}
	_, err = host.Run(ctx, k.host, argv...)
	return err
}

// without returns a minus b, as multisets.
func without(a, b []string) []string {
	have := map[string]int{}
	for _, w := range b {
		have[w]++
	}
	var out []string
	for _, w := range a {
		if have[w]--; have[w] < 0 {
			out = append(out, w)
		}
	}
	return out
}

// bootc keeps arguments by source; fettle's source is "fettle".
type bootc struct{ host *host.Host }

var bootcSet = []string{"bootc", "loader-entries", "set-options-for-source"}

func (bootc) setting() setting.Setting { return setting.Setting{Kind: "bootloader", Name: "bootc"} }

func (k bootc) keepsSources(ctx context.Context) bool {
	if !host.HasProgram(k.host, "bootc") {
		return false
	}
	_, err := host.Run(ctx, k.host, append(bootcSet[:3:3], "--help")...)
	return err == nil
}

func (k bootc) plan(_ context.Context, _ *plugin.Request, o profile.Option, want boot) ([]plugin.Item, error) {
	it := plugin.Want(k.setting(), want.args, o)
	it.Why = "makes a new deployment, which takes effect at the next boot"
	return []plugin.Item{it}, nil
}

const sourceKey = "x-options-source-fettle"

// read returns the arguments of fettle's source. They are in the staged deployment, a GVariant
// dictionary of strings, or without one in the booted deployment's entry.
func (k bootc) read(context.Context) (setting.Value, error) {
	b, err := k.host.Files.ReadFile("/run/ostree/staged-deployment")
	if err == nil {
		if _, rest, ok := strings.Cut(string(b), sourceKey+"\x00"); ok {
			args, _, _ := strings.Cut(rest, "\x00")
			return absentIfEmpty(args), nil
		}
		return setting.Absent, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return setting.Value{}, err
	}
	cmdline, err := k.host.Files.ReadFile("/proc/cmdline")
	if err != nil {
		return setting.Value{}, err
	}
	deployment := ""
	for _, f := range strings.Fields(string(cmdline)) {
		if strings.HasPrefix(f, "ostree=") {
			deployment = f
		}
	}
	names, err := host.Glob(k.host.Files, entriesDir+"/*.conf")
	if err != nil {
		return setting.Value{}, err
	}
	for _, p := range names {
		b, err := k.host.Files.ReadFile(p)
		if err != nil || deployment == "" || !hasWord(string(b), deployment) {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if args, ok := strings.CutPrefix(line, sourceKey+" "); ok {
				return absentIfEmpty(strings.TrimSpace(args)), nil
			}
		}
		return setting.Absent, nil
	}
	return setting.Value{}, fmt.Errorf("%s has no entry for the booted deployment", entriesDir)
}

func absentIfEmpty(args string) setting.Value {
	if args == "" {
		return setting.Absent
	}
	return setting.Text(args)
}

func (k bootc) write(ctx context.Context, v setting.Value) error {
	argv := append(bootcSet[:3:3], "--source", "fettle")
	if !v.Absent && v.Text != "" {
		argv = append(argv, "--options", v.Text)
	}
	_, err := host.Run(ctx, k.host, argv...)
	return err
}
