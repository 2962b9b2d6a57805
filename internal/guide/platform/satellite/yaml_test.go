package satellite

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/root"
)

// Documents with what YAML 1.1 calls a merge, and what Ruby makes of them.
var merges = []string{
	"d: &d\n  pool: 7\n  host: h\nproduction:\n  <<: *d\n  host: x\n",
	"d: &d {pool: 7}\nproduction:\n  pool: 3\n  <<: *d\n",
	"a: &a {pool: 7}\nb: &b {pool: 8, x: 1}\nproduction:\n  <<: [*a, *b]\n",
	"a: &a {pool: 7}\nb: &b {pool: 8}\nproduction:\n  <<: *a\n  <<: *b\n",
	"a: &a {pool: 7}\nproduction:\n  <<: *a\n  pool:\n",
	"a: &a {pool: }\nproduction:\n  pool: 4\n  <<: *a\n",
	"production:\n  <<: {pool: 9}\n",
	"production:\n  <<: 5\n  pool: 9\n",
	"a: &a {pool: 7}\nb: &b\n  <<: *a\n  host: h\nproduction:\n  <<: *b\n",
	"a: &a {v: {x: 1, y: 2}}\nproduction:\n  v: {z: 3}\n  <<: *a\n",
	"a: &a {v: {x: 1}}\nproduction:\n  <<: *a\n  v: w\n",
	"a: &a {pool: 7}\nproduction: *a\n",
	"a: {x: 1}\na: {y: 2}\n",
	"n: &n 7\nproduction: {pool: *n, list: [*n, a]}\n",
	"a: 1\n---\nb: 2\n",
	"---\n...\n---\na: 1\n",
	"a: 1\n---\n{ no YAML",
}

// The files of Satellite are read as its Ruby reads them.
func TestEntriesAsRuby(t *testing.T) {
	r := root.New(t, root.Options{Servers: true})
	const flatten = `
def flat(prefix, v, out)
  case v
  when Hash then v.each { |k, x| flat(prefix == "" ? k.to_s : prefix + "/" + k.to_s, x, out) }
  when Array then out[prefix] = v.join(" ")
  when nil then nil
  else out[prefix] = v.to_s
  end
  out
end
puts JSON.generate(ARGV.map { |text| flat("", YAML.unsafe_load(text), {}) })`
	var want []map[string]string
	if err := json.Unmarshal([]byte(r.Must(append([]string{"ruby", "-ryaml", "-rjson", "-e", flatten, "--"}, merges...)...)), &want); err != nil || len(want) != len(merges) {
		t.Fatal(err)
	}
	for i, text := range merges {
		all, err := entries(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := map[string]string{}
		for key, e := range all {
			got[key] = e.text
		}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("%s-Ruby +ours:\n%s", text, diff)
		}
	}
}

// The pool is what ActiveRecord makes of database.yml.
func TestDatabasePool(t *testing.T) {
	const name = "etc/foreman/database.yml"
	for text, want := range map[string]answers{
		"d: &d\n  adapter: postgresql\n  pool: 12\n  host: db.example.com\nproduction:\n  <<: *d\n":                       {"db_pool": 12, "database_local": false},
		"d: &d\n  adapter: postgresql\nproduction:\n  <<: *d\n  database: foreman\n":                                      {"db_pool": 5, "database_local": true},
		"production:\n  adapter: postgresql\n  pool:\n":                                                                   {"db_pool": 5},
		"production:\n  adapter: postgresql\n  pool: <%= ENV['POOL'] || 9 %>\n":                                           {"db_pool": unknown, "database_local": unknown},
		"production:\n  adapter: postgresql\n<% if true %>\n":                                                             {"db_pool": unknown},
		"production:\n  adapter: postgresql\n  pool: many\n":                                                              {"db_pool": unknown},
		"production:\n  url: postgresql://u:p@db.example.com/foreman?pool=30\n  pool: 4\n":                                {"db_pool": 30, "database_local": false},
		"production:\n  url: postgresql:///foreman\n":                                                                     {"db_pool": 5, "database_local": true},
		"production:\n  url: \"postgresql://%zz\"\n":                                                                      {"db_pool": unknown, "database_local": unknown},
		"production:\n  primary:\n    adapter: postgresql\n    pool: 3\n":                                                 {"db_pool": unknown},
		"development:\n  adapter: postgresql\n  pool: 3\n":                                                                {"db_pool": unknown},
		"production: {adapter: postgresql, pool: 8}\n---\nproduction: {adapter: postgresql, pool: 80, host: elsewhere}\n": {"db_pool": 8, "database_local": true},
	} {
		t.Run(text, func(t *testing.T) {
			check(t, sosreport(t, satelliteFiles(map[string]string{name: text})), want)
		})
	}
	s := sosreport(t, satelliteFiles(map[string]string{name: "production:\n  adapter: postgresql\n"}))
	if a := s.Answer("satellite.db_pool"); a.At != "ActiveRecord's default, as /etc/foreman/database.yml has no pool" {
		t.Errorf("%+v", a)
	}
}
