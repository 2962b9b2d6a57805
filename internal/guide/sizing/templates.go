package sizing

import (
	"io/fs"
	"path"
	"strings"
	"sync"
	"text/template"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
)

// Templates parses artifacts that a package embeds, when the first is filled in, and
// returns the function that fills one in by its file name. It panics where template and
// data do not fit: both are part of the program, and tests fill in all of them.
func Templates(fsys fs.FS) func(name string, data any) string {
	parsed := sync.OnceValue(func() *template.Template {
		functions := template.FuncMap{"base": path.Base, "shell": text.Quote, "yaml": yamlScalar}
		return template.Must(template.New("").Option("missingkey=error").Funcs(functions).ParseFS(fsys, "templates/*"))
	})
	return func(name string, data any) string {
		var b strings.Builder
		if err := parsed().ExecuteTemplate(&b, name, data); err != nil {
			panic(err)
		}
		return b.String()
	}
}

// yamlScalar returns a number or a string as YAML, in quotes if it needs them.
func yamlScalar(v any) (string, error) {
	b, err := yaml.Marshal(v)
	return strings.TrimSuffix(string(b), "\n"), err
}
