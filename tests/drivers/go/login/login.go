// Logs in as a URI says and works in a collection of the database `test`: login URI COLLECTION.
//
// Out: five lines about what was done. An error goes to stderr as `code 13: message`, with exit 1.
// The programs of the other languages beside this one do and print the same.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

type status struct {
	AuthInfo struct {
		AuthenticatedUsers []struct{ User, DB string }
	}
}

func work(ctx context.Context, uri, name string) error {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return err
	}
	defer client.Disconnect(ctx)
	database := client.Database("test")
	collection := database.Collection(name)
	// A read comes first: it is what a client that is not logged in is refused.
	before, err := collection.CountDocuments(ctx, bson.D{})
	if err != nil {
		return err
	}
	fmt.Println("before", before)
	inserted, err := collection.InsertOne(ctx, bson.D{{Key: "_id", Value: 7}, {Key: "text", Value: "größer"}})
	if err != nil {
		return err
	}
	fmt.Println("inserted", inserted.InsertedID)
	var found struct{ Text string }
	if err := collection.FindOne(ctx, bson.D{{Key: "_id", Value: 7}}).Decode(&found); err != nil {
		return err
	}
	fmt.Println("found", found.Text)
	after, err := collection.CountDocuments(ctx, bson.D{})
	if err != nil {
		return err
	}
	fmt.Println("counted", after)
	var status status
	if err := database.RunCommand(ctx, bson.D{{Key: "connectionStatus", Value: 1}}).Decode(&status); err != nil {
		return err
	}
	for _, user := range status.AuthInfo.AuthenticatedUsers {
		fmt.Printf("user %s of %s\n", user.User, user.DB)
	}
	return nil
}

// The code the server gave, or -1.
func codeOf(err error) int {
	var refused mongo.ServerError
	if errors.As(err, &refused) && len(refused.ErrorCodes()) > 0 {
		return refused.ErrorCodes()[0]
	}
	return -1
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := work(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "code %d: %v\n", codeOf(err), err)
		os.Exit(1)
	}
}
