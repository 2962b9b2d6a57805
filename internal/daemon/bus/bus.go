// Package bus serves TuneD's name on the system bus: com.redhat.tuned, object /Tuned. Polkit
// decides which caller may call which method.
package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/godbus/dbus/v5"

	"fettle.dev/fettle/internal/daemon"
)

// Name is the name that the daemon owns on the bus, Path its only object.
const (
	Name = daemon.Namespace
	Path = dbus.ObjectPath("/Tuned")
)

// ErrOwned is returned if another program owns Name: another tuner is running.
var ErrOwned = errors.New("another program owns " + Name + " on the bus")

// Options are the options of a service.
type Options struct {
	Target daemon.Target
	// Address is the bus address; "" means the system bus ($DBUS_SYSTEM_BUS_ADDRESS or its default
	// path).
	Address string
	// MachineID is the result of Peer.GetMachineId: the content of /etc/machine-id.
	MachineID string
	// Owned, if not nil, is called each time the name has been claimed, also after a
	// reconnection.
	Owned func()
	Log   *slog.Logger
}

// Reconnection attempts wait firstWait, then twice as long each time, up to lastWait. The service
// wakes up by itself only while the bus is missing.
const (
	firstWait = 50 * time.Millisecond
	lastWait  = time.Minute
)

// Service is TuneD's interface on the bus.
type Service struct {
	options Options
	done    chan struct{}
}

// Serve claims the name, starts to serve and returns. The service ends with ctx and releases the
// name. Call it once the first selection is in force: clients that wait for the name wait for the
// tuning. It returns ErrOwned, or an error if the bus cannot be reached. If the bus disconnects
// later, the service reconnects, and ends if another program then owns the name.
func Serve(ctx context.Context, o Options) (*Service, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{options: o, done: make(chan struct{})}
	changed := o.Target.Control.Changed(ctx)
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	go s.run(ctx, conn, changed)
	return s, nil
}

// Wait returns once the service has ended.
func (s *Service) Wait() { <-s.done }

func (s *Service) run(ctx context.Context, conn *dbus.Conn, changed <-chan daemon.ProfileChanged) {
	defer close(s.done)
	for {
		announce(ctx, conn, changed, s.options.Log)
		if ctx.Err() != nil {
			release(conn)
			return
		}
		s.options.Log.Warn("the bus connection is lost; waiting for the bus")
		var err error
		if conn, err = s.reconnect(ctx, changed); err != nil {
			if ctx.Err() == nil {
				s.options.Log.Error("no longer on the bus", "error", err)
			}
			return
		}
	}
}

// release releases the name and closes the connection. An unresponsive bus releases the name when
// it notices the closed connection.
func release(conn *dbus.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.ReleaseName", 0, Name)
	conn.Close()
}

// announce sends a signal for each finished switch until the connection or ctx
// ends.
func announce(ctx context.Context, conn *dbus.Conn, changed <-chan daemon.ProfileChanged, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-conn.Context().Done():
			return
		case c, ok := <-changed:
			if !ok {
				changed = nil
				continue
			}
			if err := conn.Emit(Path, daemon.Interface+"."+daemon.Signal, valid(c.Profiles), c.OK, valid(c.Message)); err != nil {
				log.Warn("cannot announce a switch on the bus", "error", err)
			}
		}
	}
}

// reconnect waits for the bus to return. Switches in the meantime are not announced.
func (s *Service) reconnect(ctx context.Context, changed <-chan daemon.ProfileChanged) (*dbus.Conn, error) {
	wait := time.NewTimer(firstWait)
	defer wait.Stop()
	for next := firstWait; ; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case _, ok := <-changed:
			if !ok {
				changed = nil
			}
		case <-wait.C:
			conn, err := s.connect(ctx)
			if err == nil || errors.Is(err, ErrOwned) {
				return conn, err
			}
			next = min(2*next, lastWait)
			s.options.Log.Info("the bus is still unavailable", "error", err, "next_try_s", next.Seconds())
			wait.Reset(next)
		}
	}
}

// connect opens a connection and claims the name.
func (s *Service) connect(ctx context.Context) (*dbus.Conn, error) {
	o := s.options
	h := &handler{target: o.Target, machineID: o.MachineID, ctx: ctx, log: o.Log}
	// An unresponsive bus blocks only until ctx ends. A finished connection outlives ctx, until
	// the name is released.
	connected, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	options := []dbus.ConnOption{dbus.WithHandler(h), dbus.WithIncomingInterceptor(routePeer), dbus.WithContext(connected)}
	var conn *dbus.Conn
	var err error
	if o.Address == "" {
		conn, err = dbus.ConnectSystemBus(options...)
	} else {
		conn, err = dbus.Connect(o.Address, options...)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("cannot reach the system bus: %w", err)
	}
	h.authority.conn.Store(conn)
	reply, err := conn.RequestName(Name, dbus.NameFlagDoNotQueue)
	switch {
	case err != nil:
		err = fmt.Errorf("cannot claim %s: %w", Name, err)
	case reply == dbus.RequestNameReplyPrimaryOwner:
		if o.Owned != nil {
			o.Owned()
		}
		return conn, nil
	default:
		err = owner(conn)
	}
	conn.Close()
	return nil, err
}

// owner returns ErrOwned, with the process that owns the name if the bus reports it.
func owner(conn *dbus.Conn) error {
	var pid uint32
	if err := conn.BusObject().Call("org.freedesktop.DBus.GetConnectionUnixProcessID", 0, Name).Store(&pid); err != nil || pid == 0 {
		return ErrOwned
	}
	return fmt.Errorf("%w: process %d", ErrOwned, pid)
}
