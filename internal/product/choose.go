package product

import (
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/ui"
)

// Choose returns the server that a flag names, or the only one. product is the program's name in
// messages. none is the error text if no server runs.
func Choose[T any](product, none, flag string, all []T, nameOf func(T) string, wanted string) (one T, err error) {
	var names []string
	for _, s := range all {
		name := nameOf(s)
		if name == wanted || wanted == "" && len(all) == 1 {
			return s, nil
		}
		names = append(names, name)
	}
	switch {
	case len(all) == 0:
		return one, ui.Hinted(ui.Failed, errors.New(none), "start it, or run fettle on the machine where it runs")
	case wanted == "":
		return one, ui.Retry(ui.Usage, fmt.Errorf("several instances run; choose one with %s %s", flag, strings.Join(names, " or ")), "", flag+"="+names[0])
	}
	return one, ui.Instead(ui.Usage, fmt.Errorf("%s %q is not running; running: %s", product, wanted, strings.Join(names, ", ")), "", flag+"="+names[0])
}
