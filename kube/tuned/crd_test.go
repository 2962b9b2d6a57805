package tuned

import (
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/kube/deploy"
	"fettle.dev/fettle/kube/strict"
)

// form is the part of OpenAPI v3 that the definitions use.
type form struct {
	Description          string           `yaml:"description"`
	Type                 string           `yaml:"type"`
	Format               string           `yaml:"format"`
	Pattern              string           `yaml:"pattern"`
	Enum                 []string         `yaml:"enum"`
	Minimum              *int64           `yaml:"minimum"`
	MinLength            int              `yaml:"minLength"`
	Required             []string         `yaml:"required"`
	Properties           map[string]*form `yaml:"properties"`
	Items                *form            `yaml:"items"`
	AdditionalProperties *form            `yaml:"additionalProperties"`
	Preserve             bool             `yaml:"x-kubernetes-preserve-unknown-fields"`
}

// definition is the part of a CustomResourceDefinition that is looked at.
type definition struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		Group string `yaml:"group"`
		Scope string `yaml:"scope"`
		Names struct {
			Kind     string `yaml:"kind"`
			ListKind string `yaml:"listKind"`
			Plural   string `yaml:"plural"`
			Singular string `yaml:"singular"`
		} `yaml:"names"`
		Versions []struct {
			Name         string `yaml:"name"`
			Served       bool   `yaml:"served"`
			Storage      bool   `yaml:"storage"`
			Subresources struct {
				Status *struct{} `yaml:"status"`
			} `yaml:"subresources"`
			Columns []struct {
				Name     string `yaml:"name"`
				Type     string `yaml:"type"`
				Priority int    `yaml:"priority"`
				JSONPath string `yaml:"jsonPath"`
			} `yaml:"additionalPrinterColumns"`
			Schema struct {
				OpenAPI *form `yaml:"openAPIV3Schema"`
			} `yaml:"schema"`
		} `yaml:"versions"`
	} `yaml:"spec"`
}

func definitions(t *testing.T) map[string]definition {
	t.Helper()
	out := map[string]definition{}
	files, err := fs.Glob(deploy.FS, "kinds/plain/tuned.openshift.io_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := fs.ReadFile(deploy.FS, file)
		if err != nil {
			t.Fatal(err)
		}
		var d definition
		dec := yaml.NewDecoder(strings.NewReader(string(data)))
		dec.KnownFields(true) // what this test does not know, it has not looked at
		if err := dec.Decode(&d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if want := fmt.Sprintf("kinds/plain/%s_%s.yaml", d.Spec.Group, d.Spec.Names.Plural); file != want {
			t.Errorf("%s: want the name %s", file, want)
		}
		out[d.Spec.Names.Kind] = d
	}
	return out
}

// TestDefinitions holds the definitions against the types, field by field.
func TestDefinitions(t *testing.T) {
	all := definitions(t)
	if len(all) != 2 {
		t.Errorf("%d definitions", len(all))
	}
	for kind, typ := range map[string]reflect.Type{"Tuned": reflect.TypeFor[Tuned](), "Profile": reflect.TypeFor[Profile]()} {
		d := all[kind]
		plural := strings.ToLower(kind) + "s"
		names := d.Spec.Names
		if d.APIVersion != "apiextensions.k8s.io/v1" || d.Kind != "CustomResourceDefinition" || d.Metadata.Name != plural+"."+GroupVersion.Group ||
			d.Spec.Group != GroupVersion.Group || d.Spec.Scope != "Namespaced" || names.ListKind != kind+"List" || names.Plural != plural || names.Singular != strings.ToLower(kind) {
			t.Errorf("%s: %+v", kind, d)
		}
		if len(d.Spec.Versions) != 1 {
			t.Fatalf("%s has %d versions", kind, len(d.Spec.Versions))
		}
		v := d.Spec.Versions[0]
		if v.Name != GroupVersion.Version || !v.Served || !v.Storage || v.Subresources.Status == nil {
			t.Errorf("%s: version %+v", kind, v)
		}
		agree(t, kind, typ, "", v.Schema.OpenAPI, nil)
		for _, c := range v.Columns {
			if !columnIsThere(v.Schema.OpenAPI, c.JSONPath) {
				t.Errorf("%s: column %s: there is no %s", kind, c.Name, c.JSONPath)
			}
		}
	}
}

// TestColumns: kubectl get shows what it shows on OpenShift; a column more is at
// the end of a wide table, or between two.
func TestColumns(t *testing.T) {
	all := definitions(t)
	for kind, want := range map[string][]string{"Tuned": {"Valid", "Age"}, "Profile": {"Tuned", "Applied", "Degraded", "Message", "Age"}} {
		var got []string
		for _, c := range all[kind].Spec.Versions[0].Columns {
			if c.Priority == 0 && slices.Contains(want, c.Name) {
				got = append(got, c.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: columns %v, want %v", kind, got, want)
		}
	}
}

// columnIsThere follows a path such as .status.conditions[?(@.type=="X")].status.
func columnIsThere(s *form, path string) bool {
	if path == ".metadata.creationTimestamp" {
		return true // the API server's own
	}
	for _, name := range strings.Split(strings.TrimPrefix(strings.ReplaceAll(path, "@.type", "@type"), "."), ".") {
		name, filter, _ := strings.Cut(name, "[")
		if s = s.Properties[name]; s == nil {
			return false
		}
		if filter != "" {
			if s = s.Items; s == nil || s.Properties["type"] == nil {
				return false
			}
		}
	}
	return s.Type == "string"
}

// agree compares a type with a schema. above are the types that it is part of.
func agree(t *testing.T, path string, typ reflect.Type, tag reflect.StructTag, s *form, above []reflect.Type) {
	t.Helper()
	fault := func(format string, args ...any) { t.Errorf("%s: %s", path, fmt.Sprintf(format, args...)) }
	if s == nil {
		fault("is not in the definition")
		return
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	inherited := strings.HasSuffix(path, ".metadata") || s.Preserve
	if s.Description == "" && !inherited {
		fault("has no description")
	}
	want := form{
		Description: s.Description, Type: "object", Pattern: tag.Get("pattern"), Required: s.Required, Properties: s.Properties, Items: s.Items,
		AdditionalProperties: s.AdditionalProperties, Preserve: s.Preserve,
	}
	if tag.Get("oneof") != "" {
		want.Enum = strings.Split(tag.Get("oneof"), ",")
	}
	if tag.Get("min") != "" {
		n, err := strconv.ParseInt(tag.Get("min"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		want.Minimum = &n
	}
	if tag.Get("minLength") != "" {
		want.MinLength = 1
	}
	switch {
	case strings.HasSuffix(path, ".metadata"): // the API server knows it
	case s.Preserve:
		if !slices.Contains(above, typ) || len(s.Properties) > 0 {
			fault("keeps unknown fields, but is no type within itself")
		}
	case typ == reflect.TypeFor[StatusCondition]() || typ.Kind() == reflect.Struct && typ.PkgPath() == reflect.TypeFor[Tuned]().PkgPath():
		agreeFields(t, path, typ, s, above)
	case typ.Kind() == reflect.Struct && typ.Name() == "Time":
		want.Type, want.Format = "string", "date-time"
	case typ.Kind() == reflect.Slice:
		want.Type = "array"
		agree(t, path+"[]", typ.Elem(), "", s.Items, above)
	case typ.Kind() == reflect.Map:
		if s.AdditionalProperties == nil || s.AdditionalProperties.Type != "string" || typ.Elem().Kind() != reflect.String {
			fault("want texts by name")
		}
	case typ.Kind() == reflect.String:
		want.Type = "string"
	case typ.Kind() == reflect.Bool:
		want.Type = "boolean"
	case typ.Kind() == reflect.Int:
		want.Type = "integer"
	case typ.Kind() == reflect.Int64 || typ.Kind() == reflect.Uint64:
		want.Type, want.Format = "integer", "int64"
	default:
		fault("a %s has no schema", typ)
	}
	if !reflect.DeepEqual(want, *s) {
		fault("is %+v, want %+v", *s, want)
	}
}

func agreeFields(t *testing.T, path string, typ reflect.Type, s *form, above []reflect.Type) {
	t.Helper()
	var required, names []string
	for _, f := range strict.Objects("", 0).Fields(typ) {
		names = append(names, f.Names[0])
		if f.Required {
			required = append(required, f.Names[0])
		}
		agree(t, path+"."+f.Names[0], typ.FieldByIndex(f.Index).Type, f.Tag, s.Properties[f.Names[0]], append(above, typ))
	}
	for name := range s.Properties {
		if !slices.Contains(names, name) {
			t.Errorf("%s.%s is in the definition, but not in %s", path, name, typ)
		}
	}
	slices.Sort(required)
	if !slices.Equal(required, s.Required) {
		t.Errorf("%s: the definition requires %v, %s %v", path, s.Required, typ, required)
	}
}
