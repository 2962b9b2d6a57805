package openshift

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/product/conf"
	internaltext "fettle.dev/fettle/internal/text"
)

// application is a line of the table of applications.
type application struct {
	name                 string
	quantity             int
	cpu, memory, storage float64 // cores, bytes, bytes
	overcommit           bool
	line                 int
}

// appKeys are the keys of an application.
var appKeys = []string{"name", "quantity", "cpu", "memory", "storage", "overcommit"}

// maxApps is the maximum number of applications.
const maxApps = 10000

// lineError is an error in a line of a file.
type lineError struct {
	line int
	what string
}

func (e *lineError) Error() string { return e.what }

// wrong returns the error about a node.
func wrong(n *yaml.Node, format string, args ...any) error {
	return &lineError{n.Line, fmt.Sprintf(format, args...)}
}

var yamlError = internaltext.LazyRegexp(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// parseApps parses the table of applications. Its errors are lineErrors.
func parseApps(text string) ([]application, error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if err == nil {
		if again := dec.Decode(&second); again == nil {
			return nil, wrong(&second, "a second document begins here; want one list")
		} else if !errors.Is(again, io.EOF) {
			err = again
		}
	}
	switch m := yamlError().FindStringSubmatch(fmt.Sprint(err)); {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		return nil, &lineError{1, "the table is empty"}
	case err == nil:
	default:
		if line, what := internaltext.FindInvalid([]byte(text)); line > 0 {
			return nil, &lineError{line, what}
		}
		if m == nil {
			return nil, &lineError{1, err.Error()}
		}
		line, _ := strconv.Atoi(m[1])
		return nil, &lineError{max(line, 1), m[2]}
	}
	root := doc.Content[0]
	if root.Kind != yaml.SequenceNode {
		return nil, wrong(root, "want a list of applications, such as - {name: web, quantity: 100, cpu: 500m, memory: 1G}")
	}
	if n := len(root.Content); n == 0 || n > maxApps {
		return nil, wrong(root, "%s: want 1 to %d", internaltext.Count(n, "application"), maxApps)
	}
	var out []application
	for _, n := range root.Content {
		app, err := parseApp(conf.Aliased(n))
		if err != nil {
			return nil, err
		}
		out = append(out, app)
	}
	return out, nil
}

// parseApp reads one application.
func parseApp(n *yaml.Node) (application, error) {
	app := application{overcommit: true, line: n.Line}
	if n.Kind != yaml.MappingNode {
		return app, wrong(n, "want an application, such as {name: web, quantity: 100, cpu: 500m, memory: 1G}")
	}
	seen := map[string]bool{}
	if err := app.take(n, seen, false); err != nil {
		return app, err
	}
	for _, key := range []string{"quantity", "cpu", "memory"} {
		if !seen[key] {
			return app, wrong(n, "application %q lacks %s", app.name, key)
		}
	}
	return app, nil
}

// take reads the keys of a mapping. For a mapping merged by "<<", keys that are already present
// win.
func (app *application) take(n *yaml.Node, seen map[string]bool, merged bool) error {
	var more []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], conf.Aliased(n.Content[i+1])
		if key.Tag == "!!merge" && !merged && value.Kind == yaml.MappingNode {
			more = append(more, value)
			continue
		}
		if seen[key.Value] {
			if merged {
				continue
			}
			return wrong(key, "%q is set twice", key.Value)
		}
		seen[key.Value] = true
		if err := app.set(key, value); err != nil {
			return err
		}
	}
	for _, m := range more {
		if err := app.take(m, seen, true); err != nil {
			return err
		}
	}
	return nil
}

// set sets one value.
func (app *application) set(key, value *yaml.Node) error {
	if !slices.Contains(appKeys, key.Value) {
		meant := cmp.Or(internaltext.Suggest(key.Value, appKeys), "; want "+strings.Join(appKeys, ", "))
		return wrong(key, "unknown key %q%s", key.Value, meant)
	}
	if value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
		return wrong(key, "%s: want a single value", key.Value)
	}
	amount := func(to *float64) error {
		v, err := sizing.Quantity(value.Value)
		if err != nil {
			return wrong(value, "%s: %v", key.Value, err)
		}
		*to = v
		return nil
	}
	switch key.Value {
	case "name":
		app.name = value.Value
	case "quantity":
		n, err := strconv.Atoi(value.Value)
		if err != nil || n < 1 || n > mostPods {
			return wrong(value, "quantity: %q: want a whole number from 1 to %d", value.Value, mostPods)
		}
		app.quantity = n
	case "cpu":
		return amount(&app.cpu)
	case "memory":
		return amount(&app.memory)
	case "storage":
		return amount(&app.storage)
	case "overcommit":
		if err := value.Decode(&app.overcommit); err != nil {
			return wrong(value, "overcommit: %q: want true or false", value.Value)
		}
	}
	return nil
}
