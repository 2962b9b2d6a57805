package setting

import (
	"context"
	"fmt"
	"strings"
)

// Activation is the reload or restart by which a program takes its new values.
// The zero value means that none is needed.
type Activation struct {
	// Program is the program's name as its kind writes it: "postgresql@15-main.service".
	Program string
	// Restart reports whether the program reads the value only when it starts.
	// Otherwise a reload is enough.
	Restart bool
}

// String returns "restart of PROGRAM" or "reload of PROGRAM".
func (a Activation) String() string {
	if a.Restart {
		return "restart of " + a.Program
	}
	return "reload of " + a.Program
}

// MarshalText returns "restart:PROGRAM" or "reload:PROGRAM", and nothing for
// the zero value.
func (a Activation) MarshalText() ([]byte, error) {
	if a.Program == "" {
		return nil, nil
	}
	if a.Restart {
		return []byte("restart:" + a.Program), nil
	}
	return []byte("reload:" + a.Program), nil
}

// UnmarshalText is the inverse of MarshalText.
func (a *Activation) UnmarshalText(b []byte) error {
	*a = Activation{}
	if len(b) == 0 {
		return nil
	}
	how, program, _ := strings.Cut(string(b), ":")
	if program == "" || how != "restart" && how != "reload" {
		return fmt.Errorf("activation %q: want restart:PROGRAM or reload:PROGRAM", b)
	}
	*a = Activation{Program: program, Restart: how == "restart"}
	return nil
}

// Activation returns the reload or restart that a change of the setting needs;
// ok is false if the value takes effect by itself.
func (k Kinds) Activation(ctx context.Context, s Setting) (a Activation, ok bool) {
	if kind, is := k[s.Kind].(Activator); is {
		if a, ok := kind.Activation(ctx, s); ok {
			return a, true
		}
	}
	return Activation{}, false
}
