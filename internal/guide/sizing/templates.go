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

// Templates returns a function that fills in a package's embedded templates by file name. It
// parses them at the first call. It panics if template and data do not fit: both are part of the
// program, and tests fill in all templates.
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
