package upstream

import (
	"context"
	"reflect"

	"k8s.io/klog/v2"
)

// call calls a function or method of the kubelet. Its parameters differ by release: call passes a
// context, a logger and the operation "add" wherever a release takes them. The other parameters are
// args in order, and zero values after the last of args.
func call(function any, args ...any) []reflect.Value {
	f := reflect.ValueOf(function)
	in := make([]reflect.Value, f.Type().NumIn())
	for i := range in {
		t := f.Type().In(i)
		switch {
		case t == reflect.TypeFor[context.Context]():
			in[i] = reflect.ValueOf(context.Background())
		case t == reflect.TypeFor[klog.Logger]():
			in[i] = reflect.ValueOf(klog.Background())
		case t.Name() == "Operation":
			in[i] = reflect.ValueOf("add").Convert(t)
		case len(args) == 0:
			in[i] = reflect.Zero(t)
		default:
			in[i] = argument(args[0], t)
			args = args[1:]
		}
	}
	if len(args) > 0 {
		panic(f.Type().String() + " takes fewer arguments")
	}
	return f.Call(in)
}

// argument converts a value to a parameter's type. A function without parameters can be passed for
// a function with parameters.
func argument(value any, t reflect.Type) reflect.Value {
	if value == nil {
		return reflect.Zero(t)
	}
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Func && !v.CanConvert(t) {
		return reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value { return v.Call(nil) })
	}
	return v
}

// result returns the first result of a call.
func result[T any](out []reflect.Value) T { return out[0].Interface().(T) }

// failure returns the last result of a call, an error.
func failure(out []reflect.Value) error {
	err, _ := out[len(out)-1].Interface().(error)
	return err
}

// try calls a function that returns a value and an error.
func try[T any](function any, args ...any) (T, error) {
	out := call(function, args...)
	value, _ := out[0].Interface().(T)
	return value, failure(out)
}
