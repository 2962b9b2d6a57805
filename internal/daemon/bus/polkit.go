package bus

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/godbus/dbus/v5"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
)

// authority asks polkit whether a caller may perform an action. If polkit does not reply (not
// installed, or action unknown), only root may.
type authority struct{ conn atomic.Pointer[dbus.Conn] }

// subject is the caller as a polkit Subject (sa{sv}).
type subject struct {
	Kind    string
	Details map[string]dbus.Variant
}

// judgement is a polkit AuthorizationResult (bba{ss}).
type judgement struct {
	Authorised, Challenge bool
	Details               map[string]string
}

// allowUserInteraction lets polkit ask the user for a password
// (polkit, org.freedesktop.PolicyKit1.Authority, CheckAuthorizationFlags).
const allowUserInteraction = uint32(1)

// allows reports whether the process with the unique bus name sender may perform the action. It
// may wait until the user has entered a password.
func (a *authority) allows(ctx context.Context, log *slog.Logger, sender, action string) bool {
	conn := a.conn.Load()
	if conn == nil {
		return false
	}
	who := subject{"system-bus-name", map[string]dbus.Variant{"name": dbus.MakeVariant(sender)}}
	var j judgement
	err := conn.Object("org.freedesktop.PolicyKit1", "/org/freedesktop/PolicyKit1/Authority").
		CallWithContext(ctx, "org.freedesktop.PolicyKit1.Authority.CheckAuthorization", 0,
			who, action, map[string]string{}, allowUserInteraction, "").Store(&j)
	if err == nil {
		if !j.Authorised {
			log.Info("not authorised by polkit", "action", action, "caller", sender)
		}
		return j.Authorised
	}
	var uid uint32
	if idErr := conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetConnectionUnixUser", 0, sender).Store(&uid); idErr != nil {
		log.Warn("refused: caller unknown", "action", action, "caller", sender, "polkit", err, "error", idErr)
		return false
	}
	if uid != 0 {
		log.Warn("refused: polkit does not answer and the caller is not root", "action", action, "uid", uid, "polkit", err)
	}
	return uid == 0
}

// caller returns a context with the process that owns the unique bus name sender. Transactions then
// record that process as their caller.
func (a *authority) caller(ctx context.Context, sender string) context.Context {
	conn := a.conn.Load()
	if conn == nil {
		return ctx
	}
	var uid, pid uint32
	if conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetConnectionUnixUser", 0, sender).Store(&uid) != nil ||
		conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetConnectionUnixProcessID", 0, sender).Store(&pid) != nil {
		return ctx
	}
	return tune.ByCaller(ctx, host.CallerOf(int(pid), int(uid), "D-Bus"))
}
