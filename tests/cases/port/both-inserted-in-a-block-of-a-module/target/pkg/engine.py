if __name__ == "__main__":
    start()
    count()
    stop()
