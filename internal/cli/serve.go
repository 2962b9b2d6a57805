package cli

import (
	"context"
	"errors"
	"log/slog"

	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/daemon/bus"
	"fettle.dev/fettle/internal/daemon/socket"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

// serve begins to answer TuneD's clients on the bus and on the socket, as far as
// tuned-main.conf asks for them (enable_dbus, enable_unix_socket). Both end with
// ctx; one that cannot begin does not keep the other away.
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
			log.Warn("the bus will not tell this machine's id", "error", err)
		}
		_, err = bus.Serve(ctx, bus.Options{Target: target, MachineID: string(id), Log: log})
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
