package setting

import (
	"context"
	"fmt"
	"strings"
)

// Activation is what a program has to be told so that new values take effect.
// The zero value is none.
type Activation struct {
	// Program names it as its kind does: "postgresql@15-main.service".
	Program string
	// Restart says that it reads the value only when it starts; otherwise it is
	// told to read its files again.
	Restart bool
}

// String says it for a person: "restart of postgresql@15-main.service".
func (a Activation) String() string {
	if a.Restart {
		return "restart of " + a.Program
	}
	return "reload of " + a.Program
}

// MarshalText makes it one word of JSON; the zero value is left out with omitzero.
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

// Activation says what has to be told once the value of a place has changed; ok
// is false for places that take effect by themselves.
func (k Kinds) Activation(ctx context.Context, s Setting) (a Activation, ok bool) {
	if kind, is := k[s.Kind].(Activator); is {
		if a, ok := kind.Activation(ctx, s); ok {
			return a, true
		}
	}
	return Activation{}, false
}
