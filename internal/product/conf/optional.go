package conf

import (
	"context"
	"errors"
	"fmt"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
)

// WhyIrreversible implements setting.Irreversible: fettle cannot restore a removed line at its old
// position, unless it added the line.
func (kind) WhyIrreversible(_ setting.Setting, now, want setting.Value) (string, bool) {
	if want.Absent && !now.Absent {
		return "undo could not restore the line at its position; comment it out by hand", true
	}
	return "", false
}

// Files implements setting.FileLister.
func (k kind) Files(s setting.Setting) []string {
	main, key, err := k.parts(s)
	if err != nil {
		return nil
	}
	if p, ok, err := k.winner(main, key); ok && err == nil {
		return []string{p.File}
	}
	return []string{main}
}

// CheckRequest implements setting.RequestChecker.
func (k kind) CheckRequest(s setting.Setting, want setting.Value, _ []string) error {
	main, key, err := k.parts(s)
	if err != nil {
		return err
	}
	if k.Check == nil && k.CheckHere == nil || want.Absent {
		return nil
	}
	literal, err := k.syntax(main).Literal(want.Text)
	value := k.syntax(main).Unquote(literal)
	if err == nil && k.Check != nil {
		err = k.Check(key, value)
	}
	if err == nil && k.CheckHere != nil {
		err = k.CheckHere(k.host, key, value)
	}
	if err != nil && !errors.Is(err, setting.ErrNotSettable) {
		err = fmt.Errorf("%w: %w", setting.ErrNotSettable, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

// Activation implements setting.Activator.
func (k kind) Activation(ctx context.Context, s setting.Setting) (setting.Activation, bool) {
	main, key, err := k.parts(s)
	if err != nil || k.Product.Activation == nil || !k.host.Live {
		return setting.Activation{}, false
	}
	return k.Product.Activation(ctx, k.host, main, key)
}

// Activate implements setting.Activator.
func (k kind) Activate(ctx context.Context, a setting.Activation) error {
	if k.Product.Activate == nil {
		return fmt.Errorf("%s cannot be reloaded or restarted by fettle", a.Program)
	}
	return k.Product.Activate(ctx, k.host, a)
}

// Effect implements tune.Effecter.
func (k kind) Effect(ctx context.Context, s setting.Setting, want setting.Value) (plugin.Verdict, string) {
	main, key, err := k.parts(s)
	if err != nil || k.Product.Effect == nil || want.Absent {
		return plugin.OK, ""
	}
	return k.Product.Effect(ctx, k.host, main, key, k.meaning(want.Text))
}
