package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A step works in a database of its own; what it returns has to be a BSON value.
type step struct {
	name string
	work func(context.Context, *mongo.Database) (any, error)
}

func run(ctx context.Context, uri string, steps []step) error {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return err
	}
	defer client.Disconnect(ctx)
	for _, step := range steps {
		database := client.Database("go_" + step.name)
		if err := database.Drop(ctx); err != nil {
			return err
		}
		outcome := bson.D{{"step", step.name}}
		if result, err := attempt(ctx, step, database); err == nil {
			outcome = append(outcome, bson.E{"result", result})
		} else {
			outcome = append(outcome, bson.E{"failed", err.Error()})
		}
		line, err := bson.MarshalExtJSON(outcome, true, false)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println(string(line))
		if err := database.Drop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Runs a step. Its helpers panic with the error of what must not fail.
func attempt(ctx context.Context, step step, database *mongo.Database) (result any, err error) {
	defer func() {
		if failure, failed := recover().(error); failed {
			err = failure
		}
	}()
	return step.work(ctx, database)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// All documents of a cursor.
func all(ctx context.Context) func(*mongo.Cursor, error) []bson.D {
	return func(cursor *mongo.Cursor, err error) []bson.D {
		documents := []bson.D{}
		must(0, err)
		must(0, cursor.All(ctx, &documents))
		return documents
	}
}

// The document found, or null.
func one(result *mongo.SingleResult) bson.D {
	var document bson.D
	if err := result.Decode(&document); err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		panic(err)
	}
	return document
}

// The value of one field of each document.
func field(name string, documents []bson.D) bson.A {
	values := bson.A{}
	for _, document := range documents {
		for _, element := range document {
			if element.Key == name {
				values = append(values, element.Value)
			}
		}
	}
	return values
}

// What the server refused, or that it did not.
func refusal(err error) bson.D {
	if err == nil {
		return bson.D{{"accepted", true}}
	}
	refused := bson.D{{"message", err.Error()}, {"duplicate", mongo.IsDuplicateKeyError(err)}}
	var server mongo.ServerError
	if errors.As(err, &server) {
		refused = append(refused, bson.E{"codes", server.ErrorCodes()})
	}
	return refused
}

func main() {
	if err := run(context.Background(), os.Args[1], steps); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
