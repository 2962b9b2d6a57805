package conf

import (
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Write implements setting.Kind. It changes only the line whose value the product uses. If no line
// sets the option, Write adds a line to the main file.
func (k kind) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	main, key, err := k.parts(s)
	if err != nil {
		return err
	}
	at, found, err := k.winner(main, key)
	if err != nil {
		return err
	}
	if v.Absent && !found {
		return nil
	}
	if !found {
		at.File = main
	}
	file, err := k.inside(at.File)
	if err != nil {
		return err
	}
	st, err := k.host.Files.Stat(file)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", file)
	}
	b, err := k.host.Files.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(b)
	if found && (at.To > len(text) || at.From > at.To || text[at.From:at.To] != at.Literal) {
		return fmt.Errorf("%s: another program is changing this file", at)
	}
	switch {
	case v.Absent:
		if file != main || several(k.syntax(main), text, key) {
			return fmt.Errorf("%s sets %s on a line that fettle did not add; remove it by hand", at, key)
		}
		text = remove(k.syntax(main), text, at.Assignment)
	default:
		if !found {
			at.Assignment = Assignment{Key: key}
		}
		if text, err = put(k.syntax(main), text, at.Assignment, v.Text); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return k.host.Files.Replace(file, []byte(text), host.AttrOf(st))
}

// put sets an option in a text. It checks that the product then reads the new value, and every
// other value as before.
func put(syntax Syntax, text string, at Assignment, value string) (string, error) {
	literal, err := syntax.Literal(value)
	if err != nil {
		return "", err
	}
	before, err := syntax.Assignments(text)
	if err != nil {
		return "", err
	}
	if at.Line > 0 { // undo may write the present value again
		if back, err := syntax.Literal(at.Literal); err != nil || back != at.Literal {
			return "", fmt.Errorf("line %d sets %s to a value that undo could not restore; change it by hand", at.Line, at.Key)
		}
	}
	changed, more := set(text, at, literal), 0
	if at.Line == 0 {
		if changed, err = add(syntax, text, at.Key, literal); err != nil {
			return "", err
		}
		more = 1
	}
	after, err := syntax.Assignments(changed)
	if err == nil && len(after) == len(before)+more && slices.ContainsFunc(after, func(a Assignment) bool {
		return a.Key == at.Key && a.Literal == literal && (a.From == at.From || at.Line == 0)
	}) {
		return changed, nil
	}
	return "", fmt.Errorf("%q: %w: the value would change the meaning of the line", value, ErrValue)
}

// several reports whether more than one line of a text sets an option.
func several(syntax Syntax, text, key string) bool {
	all, err := syntax.Assignments(text)
	n := 0
	for _, a := range all {
		if a.Key == key {
			n++
		}
	}
	return err != nil || n > 1
}
