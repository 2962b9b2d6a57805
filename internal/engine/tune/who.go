package tune

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/host"
)

// MessageID is the MESSAGE_ID of lines about transactions in systemd's journal.
const MessageID = "e1d2be30074448318f9115f01caf40ef"

type callerKey struct{}

// ByCaller returns a context in which transactions are recorded as process c's instead of this
// process's.
func ByCaller(ctx context.Context, c host.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerIn returns the caller that ByCaller put into a context.
func CallerIn(ctx context.Context) (c host.Caller, ok bool) {
	c, ok = ctx.Value(callerKey{}).(host.Caller)
	return c, ok
}

// asker returns the user and caller of the operation in the context.
func (e *Engine) asker(ctx context.Context) (user string, caller *host.Caller) {
	if c, ok := CallerIn(ctx); ok {
		return c.String(), &c
	}
	if e.Caller != nil {
		c := e.Caller()
		return c.String(), &c
	}
	return e.User, nil
}

// started adds user, caller, time and reason to the record of a transaction.
func (e *Engine) started(ctx context.Context, b journal.Begin) journal.Begin {
	b.User, b.Caller = e.asker(ctx)
	b.Time, b.BootID, b.PID, b.Reason, b.Note = e.Host.Clock.Now().UTC(), e.bootID(), os.Getpid(), e.Reason, e.Note
	return b
}

// log writes one line about a transaction to the system log, if the machine has one.
func (e *Engine) log(t *journal.Tx, result string, values, failed int) {
	text := fmt.Sprintf("transaction %d: %s by %s: %s, %d values (%s)", t.ID, t.Kind, t.User, result, values, t.Reason)
	if t.Note != "" {
		text += ": " + t.Note
	}
	fields := Fields(t.User, t.Caller, t.Note,
		host.Field{Name: "FETTLE_TRANSACTION", Value: strconv.Itoa(t.ID)}, host.Field{Name: "FETTLE_KIND", Value: string(t.Kind)},
		host.Field{Name: "FETTLE_COMMAND", Value: t.Reason}, host.Field{Name: "FETTLE_RESULT", Value: result},
		host.Field{Name: "FETTLE_VALUES", Value: strconv.Itoa(values)}, host.Field{Name: "FETTLE_FAILED", Value: strconv.Itoa(failed)},
	)
	if sel, err := SelectionOf(t); err == nil && sel != nil {
		fields = append(fields, host.Field{Name: "FETTLE_PROFILE", Value: strings.Join(sel.Names(), " ")})
	}
	if t.Planned != nil {
		fields = append(fields, host.Field{Name: "FETTLE_PLAN_BY", Value: t.Planned.By})
	}
	_ = e.Host.Log(text, fields...)
}

// logConfirm writes one line about a confirmed trial.
func (e *Engine) logConfirm(c journal.Confirm) {
	fields := Fields(c.User, c.Caller, c.Note,
		host.Field{Name: "FETTLE_TRANSACTION", Value: strconv.Itoa(c.ID)}, host.Field{Name: "FETTLE_KIND", Value: "confirm"},
		host.Field{Name: "FETTLE_COMMAND", Value: e.Reason}, host.Field{Name: "FETTLE_RESULT", Value: journal.ResultDone},
	)
	_ = e.Host.Log(fmt.Sprintf("transaction %d: confirmed by %s (%s)", c.ID, c.User, e.Reason), fields...)
}

// Fields returns the fields of every line about a transaction, followed by more.
func Fields(user string, c *host.Caller, note string, more ...host.Field) []host.Field {
	fields := []host.Field{{Name: "MESSAGE_ID", Value: MessageID}, {Name: "FETTLE_USER", Value: user}, {Name: "FETTLE_REASON", Value: note}}
	if c == nil {
		return append(fields, more...)
	}
	fields = append(fields, host.Field{Name: "FETTLE_UID", Value: strconv.Itoa(c.UID)}, host.Field{Name: "FETTLE_FROM", Value: cmp.Or(c.From(), "unknown")})
	if c.LoginUID != nil {
		fields = append(fields, host.Field{Name: "FETTLE_LOGIN_UID", Value: strconv.Itoa(*c.LoginUID)})
	}
	return append(fields, more...)
}
