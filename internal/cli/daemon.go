package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/daemon/bus"
	"fettle.dev/fettle/internal/daemon/schedule"
	"fettle.dev/fettle/internal/daemon/socket"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/balance"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

type daemonOptions struct {
	tuned    bool
	takeOver bool
	schedule string
	enforce  time.Duration
}

func daemonCommand(a *app) *cobra.Command {
	var o daemonOptions
	c := &cobra.Command{
		Use: "daemon", Short: "Keep the tuning in force at boot and for new devices", Args: cobra.NoArgs,
		Long: `Applies the active profiles and keeps them in force. It also applies them to new devices
and after suspend, follows the schedule, and notices changes by other fettle commands.
When the daemon ends, values stay, except those that need an open file descriptor. If
no profile is active, it uses TuneD's preset or recommended profile.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.daemon(c.Context(), o)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.tuned, "tuned", true, "serve TuneD's D-Bus name, socket and state files")
	f.BoolVar(&o.takeOver, "take-over", false, "stop another active tuner, such as TuneD; fettle undo restores it")
	f.StringVar(&o.schedule, "schedule", schedule.File, "schedule file")
	f.DurationVar(&o.enforce, "enforce", 0, "interval at which changed values are restored, such as 1m (default: drift is only reported)")
	cliutil.Between(f, "enforce", 10*time.Second, 24*time.Hour, time.Minute)
	// Replaces the global flag, which the daemon rejects.
	f.StringArrayVar(&a.profileDirs, "profile-dir", nil, "rejected: other users can select profiles over D-Bus")
	_ = f.MarkHidden("profile-dir")
	return c
}

func (a *app) daemon(ctx context.Context, o daemonOptions) error {
	if len(a.profileDirs) > 0 {
		return ui.Without(errors.New("the daemon does not accept --profile-dir, because other users can select profiles over D-Bus; put profiles below /etc/tuned/profiles"), "--profile-dir")
	}
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	writes := m.WritesOfSelection(ctx)
	if m.Main.NumaBalance.On() {
		writes = func() []setting.Setting { return append(m.WritesOfSelection(ctx)(), balance.Writes()...) }
	}
	if _, err := m.OneTuner(ctx, o.takeOver, a.command+" --take-over", writes); err != nil {
		return err
	}
	c := daemon.Config{Open: a.daemonMachine, TuneD: o.tuned, Schedule: o.schedule, Enforce: o.enforce, Log: a.screen.Err}
	if o.tuned {
		c.Serve = func(ctx context.Context, control daemon.Control, main *profile.MainConfig) error {
			return serve(ctx, m.Host, control, main, slog.New(slog.NewTextHandler(a.screen.Err, nil)))
		}
	}
	// The daemon handles signals itself: SIGHUP reloads it.
	return daemon.Run(context.WithoutCancel(ctx), c)
}

// daemonMachine opens the machine. The daemon calls it for each operation.
func (a *app) daemonMachine(ctx context.Context) (*daemon.Machine, error) {
	m, err := a.machine(ctx)
	if err != nil {
		return nil, err
	}
	return &daemon.Machine{Engine: m.Engine, Loader: m.Loader, Kinds: m.Kinds}, nil
}

// serve answers TuneD's clients on D-Bus and the Unix socket until ctx ends, if tuned-main.conf
// enables them (enable_dbus, enable_unix_socket). If one fails, the other keeps running.
func serve(ctx context.Context, h *host.Host, control daemon.Control, main *profile.MainConfig, log *slog.Logger) error {
	target := daemon.Target{Control: control}
	var failed []error
	if main.EnableUnixSocket {
		s, err := socket.Serve(ctx, socket.Options{
			Control: control, Path: main.UnixSocketPath, Ownership: main.UnixSocketOwnership, Permissions: main.UnixSocketPermissions,
			Backlog: main.ConnectionsBacklog, SignalPaths: main.UnixSocketSignalPaths, Log: log,
		})
		if err == nil {
			target.AddSignalPath = s.AddSignalPath
		}
		failed = append(failed, err)
	}
	if main.EnableDBus {
		id, err := h.Files.ReadFile("/etc/machine-id")
		if err != nil {
			log.Warn("the bus does not report this machine's ID", "error", err)
		}
		_, err = bus.Serve(ctx, bus.Options{Target: target, MachineID: string(id), Log: log})
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
